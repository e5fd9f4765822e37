# /// attack
# guarantee = "filesystem_read"
# summary = "Reads the host's password hashes."
# reference = "shadow(5)"
# success = "the file can be read"
# needs = ["root"]
# refusal = { default = "errno" }
# ///

if [ -e /etc/shadow ]; then
    cat /etc/shadow >/dev/null 2>&1 && exit 42
    exit 44
fi
echo "REFUSED ENOENT"
exit 43
